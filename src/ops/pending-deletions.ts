import type { Kind } from '../compliance/kinds.ts';

/** How long an approval is valid: long enough for a full sync, which proves the deletions once more. */
export const APPROVAL_MS = 60 * 60_000;

/** The page that lists them, and has the buttons. */
export const pendingHref = (kind: Kind): string => `/records/${kind}?deletion_pending=yes`;
