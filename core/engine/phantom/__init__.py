"""The demo study: endoscopy-like frames drawn by our own code from a seed, with lesions whose masks are exact."""
