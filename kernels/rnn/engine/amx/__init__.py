"""Layers whose products an Intel processor's AMX computes, of factors in bfloat16."""
