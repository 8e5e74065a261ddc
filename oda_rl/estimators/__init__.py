"""Estimators in scikit-learn's style over the codebook."""
