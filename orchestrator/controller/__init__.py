"""What keeps the installation whole: runs that lost their worker go on, sandboxes that lost their run go away."""
