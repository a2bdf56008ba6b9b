import { describe, expect, it } from 'vitest';
import { MalformedAnswer } from '../../src/compliance/envelope.ts';
import {
  challengeOf,
  readConsent,
  scopesFor,
  startConsent,
  type Tokens,
  tokensIn,
} from '../../src/compliance/oauth.ts';

const NOW = Date.parse('2026-11-01T12:00:00Z');
const before: Tokens = {
  accessToken: 'old-access',
  refreshToken: 'old-refresh',
  expiresWall: NOW,
  renewWall: NOW,
  askedScopes: ['read'],
  grantedScopes: ['read', 'audit'],
};
const read = (answer: unknown, earlier: Tokens | null = null) =>
  tokensIn(answer, { askedScopes: ['read'], before: earlier, nowWall: NOW });

describe('reading a token answer', () => {
  it.each([
    ['an hour, when it does not say', {}, 3600, 3540],
    ['what it says', { expires_in: 7200 }, 7200, 7140],
    ['a number as text', { expires_in: '300' }, 300, 240],
    ['half of a lifetime that is shorter than two early renewals', { expires_in: 60 }, 60, 30],
    ['an hour, where the lifetime is no number', { expires_in: 'soon' }, 3600, 3540],
    ['an hour, where the lifetime is none', { expires_in: 0 }, 3600, 3540],
    ['an hour, where scopes are no text', { scope: ['read'] }, 3600, 3540],
    ['ten years at most, which a date can still hold', { expires_in: 1e300 }, 316_224_000, 316_223_940],
    ['null as absent', { expires_in: null, refresh_token: null, scope: null }, 3600, 3540],
  ])('takes %s', (_, fields, lifetimeSeconds, renewAfterSeconds) => {
    const tokens = read({ access_token: 'a', ...fields });
    expect((tokens.expiresWall - NOW) / 1000).toBe(lifetimeSeconds);
    expect((tokens.renewWall - NOW) / 1000).toBe(renewAfterSeconds);
  });

  it('keeps the refresh token in force when the answer brings no other', () => {
    expect(read({ access_token: 'a' }, before).refreshToken).toBe('old-refresh');
    // RFC 6749 allows a space in it, and it is sent in no header.
    expect(read({ access_token: 'a', refresh_token: 'a new' }, before).refreshToken).toBe('a new');
    expect(read({ access_token: 'a', refresh_token: '' }, before).refreshToken).toBe('old-refresh');
    expect(read({ access_token: 'a' }).refreshToken).toBeNull();
    expect(read({ access_token: 'a', refresh_token: '' }).refreshToken).toBeNull();
  });

  it('keeps what was granted when the answer does not repeat it', () => {
    expect(read({ access_token: 'a' }, before).grantedScopes).toEqual(['read', 'audit']);
    expect(read({ access_token: 'a', scope: ' read  write ' }, before).grantedScopes).toEqual([
      'read',
      'write',
    ]);
  });

  it.each([
    ['no object', null, 'the whole answer'],
    ['no access token', { token_type: 'bearer' }, 'access_token'],
    ['a token that no header can carry', { access_token: 'a\nb' }, 'access_token'],
    ['an empty token', { access_token: '' }, 'access_token'],
    ['another type of token', { access_token: 'a', token_type: 'mac' }, 'token_type'],
  ])('refuses %s, and repeats nothing of it', (_, answer, where) => {
    expect(() => read(answer)).toThrow(new MalformedAnswer(`the token answer is unusable in: ${where}`));
    expect(() => read(answer)).not.toThrow(/a\nb|mac/);
  });
});

describe('scopes', () => {
  it('ask for write besides only where something is written', () => {
    expect(scopesFor(['read'], 'read')).toEqual(['read']);
    expect(scopesFor(['read'], 'write')).toEqual(['read', 'write']);
    expect(scopesFor(['write', 'read'], 'write')).toEqual(['write', 'read']);
  });
});

describe('the answer to a consent', () => {
  const attempt = startConsent({ pkce: true, state: true });
  const ours = { state: attempt.state! };
  const foreign = { outcome: 'foreign' };
  const answer = (fields: Record<string, string>) => readConsent(new URLSearchParams(fields), attempt);

  it('counts only with the state it was asked with', () => {
    expect(answer({ ...ours, code: 'c' })).toEqual({ outcome: 'granted', code: 'c' });
    expect(answer({ state: `${attempt.state}x`, code: 'c' })).toEqual(foreign);
    expect(answer({ state: 'x', error: 'access_denied' })).toEqual(foreign);
    const twice = new URLSearchParams(`state=${attempt.state}&code=a&code=b`);
    expect(readConsent(twice, attempt)).toEqual(foreign);
    const twoStates = new URLSearchParams(`state=${attempt.state}&state=x&code=c`);
    expect(readConsent(twoStates, attempt)).toEqual(foreign);
    for (const fields of [{}, { code: 'c' }, { code: 'c', state: '' }, { error: 'access_denied' }])
      expect(answer(fields as Record<string, string>)).toEqual(foreign);
  });

  it('counts without a state, and with any, where state is switched off', () => {
    const without = startConsent({ pkce: true, state: false });
    expect(without.state).toBeNull();
    for (const query of ['code=c', 'code=c&state=', 'code=c&state=theirs']) {
      expect(readConsent(new URLSearchParams(query), without)).toEqual({ outcome: 'granted', code: 'c' });
    }
    for (const query of ['', 'code=', 'code=a&code=b']) {
      expect(readConsent(new URLSearchParams(query), without)).toEqual(foreign);
    }
  });

  it('may be a refusal, of which only a code is repeated', () => {
    expect(answer({ ...ours, error: 'access_denied' })).toEqual({
      outcome: 'refused',
      reason: 'access_denied',
    });
    expect(answer({ ...ours, error: '<b>no</b>' })).toMatchObject({ reason: 'unknown_error' });
  });

  it('is tied to a verifier whose challenge is that of RFC 7636, and to none when switched off', () => {
    // The example of the RFC's appendix B.
    const verifier = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk';
    expect(challengeOf(verifier)).toBe('E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM');
    expect(attempt.verifier).toMatch(/^[\w-]{43}$/);
    expect(startConsent({ pkce: false, state: true }).verifier).toBeNull();
    expect(startConsent({ pkce: true, state: true }).state).not.toBe(attempt.state);
  });
});
