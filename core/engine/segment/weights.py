"""Weights of region.py's logistic regression: of the measures to positive clicks, to negative ones, and of the rest.

Learnt as fit.py does, from polyps alone: every fourth of hyperkvasir's 250 by name, from the first, with the features
of EfficientNet-lite0 on ImageNet weights. `python launch.py bench click` measures them on other images.
"""

POSITIVE = (-4.0323, -5.2893, 5.1301, 0.1147, 2.468, 0.0465)
NEGATIVE = (1.5707, 1.9283, -2.4299, -1.7598, -1.3384, -0.4121)
REST = (1.7259, -0.6248, -8.651)
WEIGHTS = (*POSITIVE, *NEGATIVE, *REST)
