"""Estimators with the interface of scikit-learn, built on the codebook."""
