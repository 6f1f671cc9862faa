"""The `fanfold` command. Thin: it parses, calls `orchestrator.service`, and shows what comes back."""
