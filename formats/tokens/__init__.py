"""Token files of language models: flat, llm.c, Megatron."""
