"""What finished runs show: matrices, numbers with intervals, rates, budgets and figures, from done.json alone."""
