"""The demo's images: the handwritten digits that come with scikit-learn, enlarged to 32 px.

1,797 real digits of 8 x 8 px; five digits are base classes, the other five are novel.
"""

import torch
import torch.nn.functional as F

from implanting.datasets.image_set import ImageSet

BASE_DIGITS = (0, 1, 2, 3, 4)
NOVEL_DIGITS = (5, 6, 7, 8, 9)

SIZE = 32


def read_digits(digits: tuple[int, ...], name: str) -> ImageSet:
    """Read the images of some of the ten digits."""
    from sklearn.datasets import load_digits  # slow to import, and needed here only

    images, labels = load_digits(return_X_y=True)
    pixels = torch.from_numpy(images).reshape(-1, 1, 8, 8) * (255 / 16)
    large = F.interpolate(pixels, size=SIZE, mode="bicubic").round().clamp(0, 255).to(torch.uint8)
    chosen = torch.isin(torch.from_numpy(labels), torch.tensor(digits))
    return ImageSet(
        images=large[chosen].permute(0, 2, 3, 1).expand(-1, -1, -1, 3).contiguous(),
        labels=torch.searchsorted(torch.tensor(digits), torch.from_numpy(labels)[chosen]),
        class_names=tuple(str(digit) for digit in digits),
        name=name,
        resizing=f"8 px enlarged to {SIZE} px, bicubic",
    )
