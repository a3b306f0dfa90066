/**
 * SipHash-2-4 with the fixed key of pxar: the hash of a name in a goodbye table. Every item type of the
 * format is the hash of a text, too.
 *
 * It runs for each name looked up, so a word is two 32-bit halves instead of a BigInt.
 * Source: `pxar` crate, `format/mod.rs` (`hash_filename`); algorithm: Aumasson and Bernstein, 2012.
 */

/** A 64-bit value in two unsigned halves. */
export interface Hash64 {
  readonly high: number;
  readonly low: number;
}

const twoTo32 = 0x1_0000_0000;

/** A 64-bit word of the state: its halves are signed between operations. */
class Word {
  high: number;
  low: number;

  constructor(high: number, low: number) {
    this.high = high;
    this.low = low;
  }

  add(other: Word): void {
    const sum = (this.low >>> 0) + (other.low >>> 0);
    this.high = (this.high + other.high + (sum >= twoTo32 ? 1 : 0)) | 0;
    this.low = sum | 0;
  }

  xor(high: number, low: number): void {
    this.high ^= high;
    this.low ^= low;
  }

  /** @param bits 1…31 */
  rotate(bits: number): void {
    const high = (this.high << bits) | (this.low >>> (32 - bits));
    this.low = (this.low << bits) | (this.high >>> (32 - bits));
    this.high = high;
  }

  /** A rotation by 32. */
  swap(): void {
    const high = this.high;
    this.high = this.low;
    this.low = high;
  }
}

function halfRound(a: Word, b: Word, bits: number): void {
  a.add(b);
  b.rotate(bits);
  b.xor(a.high, a.low);
}

function rounds(count: number, v0: Word, v1: Word, v2: Word, v3: Word): void {
  for (let i = 0; i < count; i++) {
    halfRound(v0, v1, 13);
    v0.swap();
    halfRound(v2, v3, 16);
    halfRound(v0, v3, 21);
    halfRound(v2, v1, 17);
    v2.swap();
  }
}

/** Four bytes, little-endian, zero beyond the end. */
function readHalf(bytes: Uint8Array, offset: number): number {
  return (
    (bytes[offset] ?? 0) |
    ((bytes[offset + 1] ?? 0) << 8) |
    ((bytes[offset + 2] ?? 0) << 16) |
    ((bytes[offset + 3] ?? 0) << 24)
  );
}

/** The key: `PXAR_HASH_KEY_1` and `PXAR_HASH_KEY_2`. */
const key0 = new Word(0x83ac3f1c, 0xfbb450db);
const key1 = new Word(0xaa4f1b68, 0x79369fbd);

/** Hash of a name, without its terminating NUL. */
export function sipHash(bytes: Uint8Array): Hash64 {
  // The constants are the text "somepseudorandomlygeneratedbytes", by definition.
  const v0 = new Word(key0.high ^ 0x736f6d65, key0.low ^ 0x70736575);
  const v1 = new Word(key1.high ^ 0x646f7261, key1.low ^ 0x6e646f6d);
  const v2 = new Word(key0.high ^ 0x6c796765, key0.low ^ 0x6e657261);
  const v3 = new Word(key1.high ^ 0x74656462, key1.low ^ 0x79746573);
  const lastWord = bytes.length & ~7;
  for (let at = 0; at <= lastWord; at += 8) {
    // The last word holds the rest of the bytes, and the length in its top byte.
    const length = at === lastWord ? bytes.length << 24 : 0;
    const high = readHalf(bytes, at + 4) | length;
    const low = readHalf(bytes, at);
    v3.xor(high, low);
    rounds(2, v0, v1, v2, v3);
    v0.xor(high, low);
  }
  v2.xor(0, 0xff);
  rounds(4, v0, v1, v2, v3);
  return {
    high: (v0.high ^ v1.high ^ v2.high ^ v3.high) >>> 0,
    low: (v0.low ^ v1.low ^ v2.low ^ v3.low) >>> 0,
  };
}
