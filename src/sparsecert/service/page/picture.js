// From a drawing or a picture file to the pixels a model reads. A plane is {values, width, height}, 0 to 255, row by row.

// MNIST's digits fill 20 x 20 of 28 x 28 pixels. Their centre of mass lies in pixel 14, counted from 0: at 14.5 on average.
const FIELD = 28, BOX = 20, CENTRE = 14.5;
const INK = 25, MOST_INK = 0.38;  // no digit of MNIST's test set covers more of the field
// Half the width of a pen that leaves as much ink as MNIST's digits have: a mean of 0.13, 17% of the pixels inked and 10% nearly white.
const PEN = 1.3;

// Half the width of the pen on a board of that height; wide enough that no stroke vanishes between two pixels.
export const penOf = (height) => Math.max(1, PEN * height / FIELD);

// The ink of a pen along dots [x, y], over what is on the paper. A pixel is white up to half a pixel inside the edge of
// the stroke, black from half a pixel outside.
export function penned(dots, pen, width, height, paper = new Uint8ClampedArray(width * height)) {
  const out = Uint8ClampedArray.from(paper), reach = pen + 0.5;
  for (const [x, y] of dots) {
    const right = Math.min(width, x + reach), bottom = Math.min(height, y + reach);
    for (let row = Math.max(0, Math.floor(y - reach)); row < bottom; row++) {
      for (let column = Math.max(0, Math.floor(x - reach)); column < right; column++) {
        const ink = 255 * (reach - Math.hypot(column + 0.5 - x, row + 0.5 - y)), place = row * width + column;
        if (ink > out[place]) out[place] = ink;
      }
    }
  }
  return out;
}

function sample({ values, width, height }, x, y) {  // bilinear; black outside
  if (x < 0 || y < 0 || x >= width || y >= height) return 0;
  const left = Math.floor(x - 0.5), top = Math.floor(y - 0.5), right = x - 0.5 - left, down = y - 0.5 - top;
  const value = (column, row) =>
    values[Math.min(height - 1, Math.max(0, row)) * width + Math.min(width - 1, Math.max(0, column))];
  return (1 - down) * ((1 - right) * value(left, top) + right * value(left + 1, top))
    + down * ((1 - right) * value(left, top + 1) + right * value(left + 1, top + 1));
}

// Anti-aliased: an output pixel is the mean over its square of `scale` x `scale` source pixels, the first at (x0, y0).
export function resample(plane, width, height, scale, x0, y0) {
  const fine = Math.max(4, Math.ceil(2 * scale)), out = new Uint8ClampedArray(width * height);
  for (let unit = 0; unit < out.length; unit++) {
    let sum = 0;
    for (let part = 0; part < fine * fine; part++) {
      const x = unit % width + (part % fine + 0.5) / fine, y = Math.floor(unit / width) + (Math.floor(part / fine) + 0.5) / fine;
      sum += sample(plane, x0 + scale * x, y0 + scale * y);
    }
    out[unit] = sum / (fine * fine);
  }
  return out;
}

function measured({ values, width }) {
  let left = Infinity, top = Infinity, right = -1, bottom = -1, mass = 0, x = 0, y = 0, inked = 0;
  values.forEach((value, unit) => {
    const column = unit % width, row = Math.floor(unit / width);
    if (value <= INK) return;
    [left, right] = [Math.min(left, column), Math.max(right, column + 1)];
    [top, bottom] = [Math.min(top, row), Math.max(bottom, row + 1)];
    mass += value;
    x += value * (column + 0.5);
    y += value * (row + 0.5);
    inked += 1;
  });
  return { left, top, right, bottom, x: x / mass, y: y / mass, size: Math.max(right - left, bottom - top), share: inked / values.length };
}

// Why a plane looks like no digit; null if it may be one.
export function noDigit(plane, made = () => asMnist(plane)) {
  const found = measured(plane), coarse = plane.height < BOX;  // a stroke is a large part of such an image
  if (!found.share) return "nothing is drawn";
  if (found.share > (coarse ? 0.9 : 0.5)) return "most of it is filled";
  if (found.size <= Math.max(3, 0.2 * plane.height)) return "it is only a dot";
  if (!coarse && measured({ values: made().values, width: FIELD }).share > MOST_INK) return "it is one filled shape";
  return null;
}

// The plane as MNIST was made, and what that took.
export function asMnist(plane) {
  const found = measured(plane);
  const centred = Math.abs(found.x - CENTRE) <= 0.6 && Math.abs(found.y - CENTRE) <= 0.6;
  if (!found.share || (plane.width === FIELD && plane.height === FIELD && found.size === BOX && centred)) {
    return { values: Uint8ClampedArray.from(plane.values), note: "" };
  }
  const scale = found.size / BOX;
  const corner = (mass, low, high) => Math.max(high - FIELD * scale, Math.min(low, mass - CENTRE * scale));  // cuts nothing off
  const x0 = corner(found.x, found.left, found.right), y0 = corner(found.y, found.top, found.bottom);
  const factor = 1 / scale, sized = Math.abs(factor - 1) < 0.02 ? "" : ` and ${factor > 1 ? "enlarged" : "reduced"} to ${Math.round(100 * factor)}%`;
  return {
    values: resample(plane, FIELD, FIELD, scale, x0, y0),
    note: `Centred by mass${sized}, as MNIST's digits were: ${BOX} x ${BOX} pixels in the middle of ${FIELD} x ${FIELD}.`,
  };
}

// The dots of a drawing as MNIST was made: of whatever size it was drawn, its strokes get the width of MNIST's.
export function redrawn(dots) {
  const ends = [0, 1].map((axis) => dots.reduce(([low, high], dot) => [Math.min(low, dot[axis]), Math.max(high, dot[axis])], [Infinity, -Infinity]));
  const scale = (BOX - 2 * PEN) / Math.max(...ends.map(([low, high]) => high - low));
  const moved = (corner) => dots.map((dot) => dot.map((place, axis) => corner[axis] + scale * (place - ends[axis][0])));
  const first = [PEN, PEN], { x, y } = measured({ values: penned(moved(first), PEN, FIELD, FIELD), width: FIELD });
  const corner = [x, y].map((mass, axis) => {  // cuts nothing off
    const most = FIELD - PEN - scale * (ends[axis][1] - ends[axis][0]);
    return Math.max(PEN, Math.min(most, first[axis] + CENTRE - mass));
  });
  return {
    values: penned(moved(corner), PEN, FIELD, FIELD),
    note: `Redrawn as MNIST's digits are: ${BOX} x ${BOX} pixels, centred by mass, with a pen of ${2 * PEN} pixels.`,
  };
}

// White on black, whatever the paper: the ground is the median, and becomes black.
export function inked({ values, width, height }) {
  const ground = Uint8ClampedArray.from(values).sort()[values.length >> 1], light = ground > 127;
  const far = values.reduce((most, value) => Math.max(most, light ? ground - value : value - ground), 1);
  const out = values.map((value) => {
    const ink = (light ? ground - value : value - ground) / far;
    return ink < 0.25 ? 0 : 255 * ink;
  });
  return { plane: { values: out, width, height }, light };
}

// The colour planes of a file, at most 1,024 pixels wide and high; transparent pixels are white.
export async function planesOf(file, channels) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name} is not a picture that this browser can read.`);
  }
  const shrunk = Math.min(1, 1024 / Math.max(bitmap.width, bitmap.height));
  const width = Math.max(1, Math.round(shrunk * bitmap.width)), height = Math.max(1, Math.round(shrunk * bitmap.height));
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  const plane = (value) => ({ values: Uint8ClampedArray.from({ length: width * height }, (_, unit) => value(4 * unit)), width, height });
  const grey = (start) => 0.299 * data[start] + 0.587 * data[start + 1] + 0.114 * data[start + 2];
  const planes = channels === 1 ? [plane(grey)] : [0, 1, 2].map((channel) => plane((start) => data[start + channel]));
  return { planes, size: `${bitmap.width} x ${bitmap.height}`, same: (w, h) => bitmap.width === w && bitmap.height === h };
}

// The middle of the planes in a model's size.
export function cropped(planes, width, height) {
  const [plane] = planes, scale = Math.min(plane.width / width, plane.height / height);
  const x0 = (plane.width - scale * width) / 2, y0 = (plane.height - scale * height) / 2;
  return planes.flatMap((one) => Array.from(resample(one, width, height, scale, x0, y0)));
}
