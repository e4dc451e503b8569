"""Weights of region.py's logistic regression: of the measures to positive clicks, to negative ones, and of the rest.

Learnt from polyps alone, every fourth of hyperkvasir's 250 by name, from the first, with the features of
EfficientNet-lite0 on ImageNet weights: `python launch.py bench click --only fit` prints them.
`bench click` measures them on other images.
"""

POSITIVE = (-4.631, -3.9541, 4.3451, 0.5913, 2.519, 0.0325)
NEGATIVE = (2.3526, 0.8558, -0.924, -1.7992, 0.1388, -0.368)
REST = (3.2449, -0.8366, -8.5287)
WEIGHTS = (*POSITIVE, *NEGATIVE, *REST)
