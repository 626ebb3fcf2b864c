import { inflateSync } from 'node:zlib';

/** A PNG of 8-bit RGB or RGBA, as canvases write it. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  /** The pixel at a place as "r,g,b". */
  at(x: number, y: number): string;
  /** All of them, row by row. */
  readonly bytes: Buffer;
}

/** The largest difference of two pictures of one size in any channel of any pixel. */
export function farthest(one: Buffer, another: Buffer): number {
  const [a, b] = [decodePng(one), decodePng(another)];
  if (a.width !== b.width || a.bytes.length !== b.bytes.length) return Infinity;
  return a.bytes.reduce((most, byte, i) => Math.max(most, Math.abs(byte - b.bytes[i])), 0);
}

export function decodePng(bytes: Buffer): Picture {
  const [width, height] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
  const channels = bytes.readUInt8(25) === 6 ? 4 : 3;
  const parts: Buffer[] = [];
  for (let at = 8; at < bytes.length;) {
    const length = bytes.readUInt32BE(at);
    if (bytes.toString('latin1', at + 4, at + 8) === 'IDAT') {
      parts.push(bytes.subarray(at + 8, at + 8 + length));
    }
    at += length + 12;
  }
  const pixels = unfilter(inflateSync(Buffer.concat(parts)), width * channels, height, channels);
  return {
    width,
    height,
    bytes: pixels,
    at: (x, y) => {
      const start = (Math.floor(y) * width + Math.floor(x)) * channels;
      return [...pixels.subarray(start, start + 3)].join(',');
    },
  };
}

function unfilter(data: Buffer, stride: number, height: number, channels: number): Buffer {
  const out = Buffer.alloc(stride * height);
  const get = (row: number, col: number): number =>
    row < 0 || col < 0 ? 0 : out[row * stride + col];
  for (let row = 0; row < height; row++) {
    const filter = data[row * (stride + 1)];
    for (let col = 0; col < stride; col++) {
      const left = get(row, col - channels);
      const above = get(row - 1, col);
      const corner = col < channels ? 0 : get(row - 1, col - channels);
      const guess = [0, left, above, (left + above) >> 1, paeth(left, above, corner)][filter];
      out[row * stride + col] = (data[row * (stride + 1) + 1 + col] + guess) & 255;
    }
  }
  return out;
}

function paeth(left: number, above: number, corner: number): number {
  const guess = left + above - corner;
  const [a, b, c] = [left, above, corner].map((each) => Math.abs(guess - each));
  if (a <= b && a <= c) return left;
  return b <= c ? above : corner;
}
