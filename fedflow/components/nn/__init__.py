"""HomoNN: a PyTorch network over rows of several parties, by federated averaging.

What belongs here: reading definitions of networks, states as arrays, local training, the rounds'
two halves. PyTorch is an extra, and is imported by the tasks of guest and hosts alone.
"""
