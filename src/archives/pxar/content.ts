/**
 * Where the content of a file lies, after the check that the bytes there are the payload that the entry means.
 *
 * In a split archive the entry points into the payload stream, where unreferenced bytes lie between payloads;
 * only the PAYLOAD header there ties the two together.
 */
import { PbsfsError } from '../../errors.ts';
import type { PxarFile } from '../../formats/pxar/entry.ts';
import { decodeItemHeader, itemHeaderSize } from '../../formats/pxar/item.ts';
import { type ReadAt, readExactly } from '../../read-at.ts';

/** The bytes of a file: `size` from `offset` on in one of the two streams. */
export interface PxarContent {
  readonly stream: 'metadata' | 'payload';
  readonly offset: number;
  readonly size: number;
}

/**
 * @param payload undefined for an archive of one stream, or where its payload is missing.
 * @throws PbsfsError `corrupt`, and whatever the payload stream throws.
 */
export async function locateContent(
  file: PxarFile,

  payload: ReadAt | undefined,
  signal?: AbortSignal,
): Promise<PxarContent> {
  const { stream, size } = file;
  const content = { stream, size, offset: file.payloadPosition + itemHeaderSize };
  if (stream === 'metadata') {
    if (payload !== undefined)
      throw new PbsfsError('corrupt', 'content within the metadata of a split archive');
    return content;
  }
  // Nothing to find: an empty file is whole even where the payload stream is missing.
  if (size === 0) return content;
  if (payload === undefined) {
    throw new PbsfsError('corrupt', 'the payload stream of the split archive is missing', {
      hint: 'a split archive is a pair of .mpxar and .ppxar: names and attributes are in the first alone',
    });
  }
  if (size > payload.size - content.offset) {
    throw new PbsfsError(
      'corrupt',
      `content ends beyond the payload stream of ${payload.size} bytes`,
      {
        context: { offset: file.payloadPosition },
      },
    );
  }
  const header = decodeItemHeader(
    await readExactly(payload, file.payloadPosition, itemHeaderSize, signal),
    0,
  );
  if (header.name !== 'PAYLOAD' || header.size !== itemHeaderSize + size) {
    const found = `${header.name} item of ${header.size} bytes`;
    throw new PbsfsError('corrupt', `${found} where a payload of ${size} bytes should be`, {
      context: { offset: file.payloadPosition },
    });
  }
  return content;
}
