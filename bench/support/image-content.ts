/**
 * The content of benchmark images: deterministic, made chunk by chunk, so that any chunk can be made anew and
 * compared. Of eight chunks four are text that zstd halves, three are random and one is zeros: about what a VM
 * disk that is in use looks like.
 */
import { createCipheriv } from 'node:crypto';

export const chunkSize: number = 4 * 1024 * 1024;

type Kind = 'text' | 'random' | 'zeros';
const kinds = ['text', 'random', 'text', 'random', 'text', 'zeros', 'text', 'random'] as const;

const zeros = Buffer.alloc(chunkSize);
/** 2^12 words, so that 12 of the bits drawn for each name one. */
const wordCount = 4096;
const maxWordLength = 10;
const words = makeWords();

/** What chunk `i` holds. */
export function chunkKind(i: number): Kind {
  return kinds[i % kinds.length] ?? 'text';
}

/** The bytes of chunk `i`; never write into them. */
export function chunkContent(i: number, length: number): Buffer {
  switch (chunkKind(i)) {
    case 'zeros':
      return zeros.subarray(0, length);
    case 'random':
      return randomBytes(i, length);
    case 'text':
      return text(i, length);
  }
}

/** The key stream of a cipher: as good as random, and the same for the same seed. */
function randomBytes(seed: number, length: number): Buffer {
  const key = Buffer.alloc(16);
  key.writeUInt32LE(seed);
  return createCipheriv('aes-128-ctr', key, Buffer.alloc(16)).update(zeros.subarray(0, length));
}

/** Random words: zstd at level 1 makes 43 % of them, by matches as well as by entropy. */
function text(seed: number, length: number): Buffer {
  const drawn = randomBytes(seed, length);
  const bytes = Buffer.allocUnsafe(length);
  let end = 0;
  for (let i = 0; end < length; i += 2) {
    const word = words[drawn.readUInt16LE(i) % wordCount] ?? Buffer.alloc(1);
    end += word.copy(bytes, end);
  }
  return bytes;
}

/** Two to nine letters and a space. */
function makeWords(): readonly Buffer[] {
  const drawn = randomBytes(0xffff_ffff, wordCount * maxWordLength);
  return Array.from({ length: wordCount }, (_, i) => {
    const letters = drawn.subarray(i * maxWordLength, (i + 1) * maxWordLength);
    const length = 2 + ((letters[0] ?? 0) % 8);
    const word = Buffer.from(letters.subarray(1, 1 + length).map((byte) => 0x61 + (byte % 26)));
    return Buffer.concat([word, Buffer.from(' ')]);
  });
}
