"""pytorch-app: a small network, trained with FedAdam."""
