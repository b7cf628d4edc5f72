"""FeldmanVerifiableSum: sums of all parties' numbers, by shares that everybody can check."""
