"""The rendezvous back end `fedflow` of torchrun: `torchrun --rdzv-backend=fedflow ...`.

Only torch imports this, by its entry-point group `torchrun.handlers`; torch is optional. What is
decided stands in `fedflow.elastic`. docs/decisions/0052 says why the handler is not torch's own.
"""
