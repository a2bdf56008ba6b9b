import pg from 'pg';
import { keepText } from './text.ts';

const { TEXT, INT8, TIMESTAMPTZ } = pg.types.builtins;

/**
 * Columns of a batch as parameters in PostgreSQL's binary format: pg sends a Buffer as it is. Written as text, quotes
 * and backslashes of every body would be escaped here and read back there, which was most of what a batch cost.
 */

/** Dimensions, whether there may be nulls, the type of the elements, how many there are, the number of the first. */
const HEADER_BYTES = 5 * 4;
const LENGTH_BYTES = 4;
const INTEGER_BYTES = 8;
const NULL_LENGTH = -1;
/** Where PostgreSQL's own time begins. It counts in microseconds. */
const EPOCH_MS = Date.UTC(2000, 0, 1);

export function textArray(texts: readonly (string | null)[]): Buffer {
  const kept = texts.map((text) => (text === null ? null : keepText(text)));
  const bytes = kept.reduce(
    (sum, text) => sum + LENGTH_BYTES + (text === null ? 0 : Buffer.byteLength(text)),
    HEADER_BYTES,
  );
  const array = Buffer.allocUnsafe(bytes);
  let at = writeHeader(array, TEXT, kept.length);
  for (const text of kept) {
    const length = text === null ? 0 : array.write(text, at + LENGTH_BYTES);
    array.writeInt32BE(text === null ? NULL_LENGTH : length, at);
    at += LENGTH_BYTES + length;
  }
  return array;
}

/** Of safe integers. */
export const bigintArray = (numbers: readonly number[]): Buffer => integers(INT8, numbers.map(BigInt));

/** Of milliseconds since 1970. Those before 4713 BC are refused by the server. */
export const timestampArray = (walls: readonly number[]): Buffer =>
  integers(
    TIMESTAMPTZ,
    walls.map((wall) => BigInt(wall - EPOCH_MS) * 1000n),
  );

function integers(type: number, numbers: readonly bigint[]): Buffer {
  const array = Buffer.allocUnsafe(HEADER_BYTES + numbers.length * (LENGTH_BYTES + INTEGER_BYTES));
  let at = writeHeader(array, type, numbers.length);
  for (const number of numbers) {
    at = array.writeInt32BE(INTEGER_BYTES, at);
    at = array.writeBigInt64BE(number, at);
  }
  return array;
}

function writeHeader(array: Buffer, type: number, length: number): number {
  let at = array.writeInt32BE(1, 0);
  at = array.writeInt32BE(1, at);
  at = array.writeInt32BE(type, at);
  at = array.writeInt32BE(length, at);
  return array.writeInt32BE(1, at);
}
