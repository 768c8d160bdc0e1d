// Pillow's antialiased bilinear resizing of the centre square, bit for bit: the network must see the same pixels everywhere.

const BITS = 22;  // the precision of Pillow's weights

// The source pixels and weights of each of `size` pixels, when `side` pixels from `start` on are scaled to them.
function taps(length, start, side, size) {
  const scale = side / size, reach = Math.max(scale, 1);
  return Array.from({ length: size }, (_, place) => {
    const centre = start + (place + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - reach + 0.5)), end = Math.min(length, Math.trunc(centre + reach + 0.5));
    const weights = Float64Array.from({ length: end - first }, (_, tap) => Math.max(0, 1 - Math.abs((first + tap - centre + 0.5) / reach)));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return { first, weights: Int32Array.from(weights, (weight) => Math.trunc(0.5 + weight / total * 2 ** BITS)) };
  });
}

// `lines` lines of pixels are resized along the other direction; strides are numbers of bytes. The result is rounded.
function pass(source, lines, lineStride, pixelStride, target, targetLineStride, targetPixelStride, tapsOfPixels) {
  for (let line = 0; line < lines; line++) {
    for (let pixel = 0; pixel < tapsOfPixels.length; pixel++) {
      const { first, weights } = tapsOfPixels[pixel];
      for (let channel = 0; channel < 3; channel++) {
        let sum = 1 << (BITS - 1);
        for (let tap = 0, at = line * lineStride + first * pixelStride + channel; tap < weights.length; tap++, at += pixelStride) sum += source[at] * weights[tap];
        target[line * targetLineStride + pixel * targetPixelStride + channel] = sum >> BITS;
      }
    }
  }
  return target;
}

// Pillow's draft mode: a JPEG whose sides are twice `wanted` pixels or more is decoded at a half, a quarter or an eighth of its
// size. libjpeg then gives the mean of each square of pixels, which we compute from the pixels of the whole photo.
export function drafted({ data, width, height }, wanted) {
  const scale = Math.min(Math.floor(width / wanted), Math.floor(height / wanted));
  const factor = [8, 4, 2].find((one) => one <= scale);
  if (!factor) return { data, width, height };
  const across = Math.ceil(width / factor), down = Math.ceil(height / factor), small = new Uint8ClampedArray(4 * across * down);
  for (let y = 0; y < down; y++) {
    for (let x = 0; x < across; x++) {
      const right = Math.min(width, (x + 1) * factor), bottom = Math.min(height, (y + 1) * factor);
      const count = (right - x * factor) * (bottom - y * factor);
      for (let channel = 0; channel < 3; channel++) {
        let sum = 0;
        for (let row = y * factor; row < bottom; row++) for (let column = x * factor; column < right; column++) sum += data[4 * (row * width + column) + channel];
        small[4 * (y * across + x) + channel] = sum / count;  // rounded by the array
      }
    }
  }
  return { data: small, width: across, height: down };
}

// `data` has four bytes per pixel, as a canvas gives them; the result has three.
export function resized({ data, width, height }, size) {
  const side = Math.min(width, height);
  const columns = taps(width, (width - side) / 2, side, size), rows = taps(height, (height - side) / 2, side, size);
  const square = new Uint8ClampedArray(size * size * 3);
  if (height > size && height - size > 2 * (width - size)) {  // Pillow's rule for the order of the passes
    const low = pass(data, width, 4, 4 * width, new Uint8ClampedArray(width * size * 3), 3, 3 * width, rows);
    return pass(low, size, 3 * width, 3, square, 3 * size, 3, columns);
  }
  const narrow = pass(data, height, 4 * width, 4, new Uint8ClampedArray(height * size * 3), 3 * size, 3, columns);
  return pass(narrow, size, 3, 3 * size, square, 3, 3 * size, rows);
}
