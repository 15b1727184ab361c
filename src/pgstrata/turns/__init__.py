"""What can be said of each way to take turns without measuring: its cost, its pairs, its words.

One file per kind; `pgstrata.measure.turns` has the part of each that measures.
"""
