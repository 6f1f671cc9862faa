"""The agent: a model in a loop with tools that act in a sandbox. The only package that imports langchain."""
