// Which unit each entry of an input belongs to: what a radius counts.

export function unitsOf(card) {
  const entries = card.shape.reduce((product, size) => product * size, 1);
  const places = card.shape.length === 1 ? entries : entries / card.shape[0];
  const given = card.encoding.groups ?? card.encoding.units;  // of images; of tables
  const groups = given && given.flat(Infinity);
  const each = card.encoding.kind === "replaced-values" || (groups && groups.length === entries) ? entries : places;
  return Int32Array.from({ length: entries }, (_, entry) => (groups ? groups[entry % each] : entry % each));
}

// How many units differ, and whether a protected entry does, about which no certificate says anything.
export function difference(units, before, after) {
  const differing = new Set();
  after.forEach((value, entry) => { if (value !== before[entry]) differing.add(units[entry]); });
  return { unguarded: differing.delete(-1), changed: differing.size };
}

export function counted(number, card) {
  return `${number.toLocaleString("en")} ${number === 1 ? card.units.slice(0, -1) : card.units}`;
}
