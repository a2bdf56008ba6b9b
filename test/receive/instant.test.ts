import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseInstant } from '../../src/receive/envelope.ts';

describe('an ISO 8601 instant', () => {
  it.each([
    ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00.000Z'],
    ['2026-01-01T00:00Z', '2026-01-01T00:00:00.000Z'],
    ['2026-01-01T00:00:00.5Z', '2026-01-01T00:00:00.500Z'],
    ['2026-01-01T00:00:00,123456789Z', '2026-01-01T00:00:00.123Z'],
    ['2026-01-01T02:30:00+02:30', '2026-01-01T00:00:00.000Z'],
    ['2025-12-31T19:00:00-0500', '2026-01-01T00:00:00.000Z'],
    ['2026-01-01T01:00:00+01', '2026-01-01T00:00:00.000Z'],
    ['2024-02-29T12:00:00Z', '2024-02-29T12:00:00.000Z'],
    ['2000-02-29T12:00:00Z', '2000-02-29T12:00:00.000Z'],
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
    ['2017-01-01T00:59:60.5+01:00', '2017-01-01T00:00:00.500Z'],
    ['0050-06-01T00:00:00Z', '0050-06-01T00:00:00.000Z'],
  ])('%s is %s', (text, expected) => {
    expect(new Date(parseInstant(text) ?? Number.NaN).toISOString()).toBe(expected);
  });

  it.each([
    '2026-02-30T00:00:00Z',
    '2026-02-29T00:00:00Z',
    '1900-02-29T00:00:00Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:00:61Z',
    '2026-01-01T12:00:60Z',
    '2016-12-31T23:59:60+01:00',
    '2026-01-01T00:00:00',
    '2026-01-01T00:00:00+24:00',
    '2026-01-01T00:00:00.Z',
    '2026-01-01t00:00:00z',
    '2026-01-01',
    ' 2026-01-01T00:00:00Z',
    '2026-01-01T00:00:00Z\n',
    '１026-01-01T00:00:00Z',
    '1767225600',
    '',
  ])('is not %j', (text) => {
    expect(parseInstant(text)).toBeNull();
  });

  it('is the same instant in whatever zone and precision it is written', () => {
    const dates = fc.date({
      min: new Date('0001-01-01T00:00:00Z'),
      max: new Date('9998-12-31T00:00:00Z'),
      noInvalidDate: true,
    });
    const two = (n: number) => String(n).padStart(2, '0');
    fc.assert(
      fc.property(
        ...[
          dates,
          fc.integer({ min: -1439, max: 1439 }),
          fc.constantFrom('', ':'),
          fc.nat(9),
          fc.constantFrom('.', ','),
        ],
        (date, offset, colon, digits, point) => {
          const local = new Date(date.getTime() + offset * 60_000).toISOString();
          const [seconds = '', fraction = ''] = local.slice(0, -1).split('.');
          const shown = digits === 0 ? '' : point + `${fraction}999999`.slice(0, digits);
          const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
          const zone = `${offset < 0 ? '-' : '+'}${two(hours)}${colon}${two(minutes)}`;
          const cut = digits >= 3 ? 1 : 10 ** (3 - digits);
          const expected = Math.floor(date.getTime() / cut) * cut;
          expect(parseInstant(`${seconds}${shown}${zone}`)).toBe(expected);
        },
      ),
    );
  });

  it('is read from whatever two digits stand where they may, if Date writes them back as they were', () => {
    const digits = (most: number) => fc.nat(most).map((n) => String(n).padStart(2, '0'));
    const texts = fc
      .tuple(fc.nat(9999), digits(13), digits(32), digits(25), digits(61), digits(59))
      .map(([year, month, day, hour, minute, second]) => {
        return `${String(year).padStart(4, '0')}-${month}-${day}T${hour}:${minute}:${second}.000Z`;
      });
    fc.assert(
      fc.property(texts, (text) => {
        const date = new Date(text);
        const isReal = !Number.isNaN(date.getTime()) && date.toISOString() === text;
        expect(parseInstant(text)).toBe(isReal ? date.getTime() : null);
      }),
      { numRuns: 2_000 },
    );
  });

  it.each(['0', '2026-', 'T', ' ', '\u00a0', '.', '+', '00:'])('is not a million times %j', (piece) => {
    const many = piece.repeat(1_000_000);
    expect(parseInstant(many)).toBeNull();
    expect(parseInstant(`2026-01-01T00:00:00.${many}Z`)).toBeNull();
  });
});
