"""Where sandboxes come from: one package for each platform, one contract (`base`), one door (`registry`)."""
