import { randomBytes, scrypt } from 'node:crypto';
import { promisify } from 'node:util';

/** 32 bits tell two secrets apart. Of a random secret they say nothing; a guess from a list of passwords they would confirm. */
const FINGERPRINT_BYTES = 4;
/** Tens of milliseconds for each such guess. */
const COST = { N: 16_384, r: 8, p: 1 };

const derive = promisify<string, string, number, object, Buffer>(scrypt);

/** New for each process, so that fingerprints of two cannot be compared, nor be looked up in a table. */
export const newSalt = (): string => randomBytes(16).toString('hex');

/** Shows whether two processes have the same secret, and nothing else of it. */
export async function fingerprint(secret: string, salt: string): Promise<string> {
  const key = await derive(secret, `compliance-mirror setting ${salt}`, FINGERPRINT_BYTES, COST);
  return key.toString('hex');
}
