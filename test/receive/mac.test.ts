import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { macOf, type SignedPart } from '../../src/receive/mac.ts';

/** RFC 4231, test cases 1, 3 and 6: a short key, a body of one byte repeated, a key longer than any block. The second has four bytes. */
const CASES = [
  {
    key: '0b'.repeat(20),
    data: '4869205468657265',
    sha256: 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7',
    sha512:
      '87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854',
  },
  {
    key: 'aa'.repeat(20),
    data: 'dd'.repeat(50),
    sha256: '773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe',
    sha512:
      'fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb',
  },
  {
    key: 'aa'.repeat(131),
    data: '54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a65204b6579202d2048617368204b6579204669727374',
    sha256: '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54',
    sha512:
      '80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f3526b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598',
  },
] as const;

const parts = fc.array(
  fc.oneof(
    fc.uint8Array({ maxLength: 600 }),
    // From one byte below the room that a delivery has to far above it.
    fc.constantFrom(16_200, 16_256, 16_300, 16_320, 16_384, 100_000).map((bytes) => new Uint8Array(bytes)),
    fc.record({
      text: fc.oneof(
        fc.string({ unit: 'grapheme', maxLength: 200 }),
        fc.constantFrom('', '\ud800', 'ü', '€'.repeat(5_000)),
      ),
      encoding: fc.constantFrom('utf8' as const, 'latin1' as const),
    }),
  ),
  { maxLength: 5 },
);

describe('a MAC', () => {
  it.each(CASES)('is what RFC 4231 says of a key of $key.length digits', ({ key, data, sha256, sha512 }) => {
    const [secret, body] = [Buffer.from(key, 'hex'), Buffer.from(data, 'hex')];
    expect(macOf('sha256', secret, [body])).toBe(sha256);
    expect(macOf('sha512', secret, [body])).toBe(sha512);
  });

  it('is that of Node, whatever is signed, with whatever key and hash, in whatever order', () => {
    const deliveries = fc.array(fc.tuple(fc.constantFrom('sha256', 'sha384', 'sha512'), fc.nat(2), parts));
    const secrets = fc.tuple(
      fc.uint8Array({ minLength: 16, maxLength: 64 }),
      fc.uint8Array({ minLength: 60, maxLength: 70 }),
      fc.uint8Array({ minLength: 120, maxLength: 200 }),
    );
    fc.assert(
      fc.property(secrets, deliveries, (keys, signed) => {
        for (const [algorithm, n, pieces] of signed) {
          const key = keys[n]!;
          expect(macOf(algorithm, key, pieces)).toBe(macOfNode(algorithm, key, pieces));
        }
      }),
    );
  });
});

it.each(['sha256', 'sha384', 'sha512'] as const)(
  '%s gives no MAC under a key that anyone could have',
  (hash) => {
    for (let bytes = 0; bytes < 16; bytes++) {
      const secret = new Uint8Array(bytes).fill(7);
      for (const body of [Buffer.from('{}'), Buffer.alloc(20_000)]) {
        for (const _again of [1, 2]) expect(() => macOf(hash, secret, [body])).toThrow(`${bytes} bytes`);
      }
    }
  },
);

function macOfNode(algorithm: string, key: Uint8Array, pieces: readonly SignedPart[]): string {
  const bytes = pieces.map((piece) =>
    piece instanceof Uint8Array ? piece : Buffer.from(piece.text, piece.encoding),
  );
  return createHmac(algorithm, key).update(Buffer.concat(bytes)).digest('hex');
}
