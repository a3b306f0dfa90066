/** What the driver `fuse-native` cannot do, since libfuse 2 or its wrapper cannot; the conformance suite skips it. */
export const limitations = {
  holes: 'SEEK_HOLE and SEEK_DATA see every file as one run of data',
  interrupts: 'a program that is killed while it waits for a read ends only when that read ends',
  byteNames: 'names that are not UTF-8 are listed but cannot be opened',
  inodeNumbers:
    'inode numbers are those of libfuse, so the names of a hard link look like different files',
  exactTimes: 'times before 1970 show as 1970, and parts of a millisecond are lost',
  listingWithAttributes:
    'each name of a listing costs a request of its own when attributes are wanted',
} as const;

export type Limitation = keyof typeof limitations;
