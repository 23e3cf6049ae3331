"""The two answers of a verdict: are the model's outputs damaged, and who is to blame?"""
