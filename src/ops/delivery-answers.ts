import { CONFLICTING, type DeliveryReport } from '../store/reports.ts';

/** Whether a delivery's signature was right. `not_checked`: the delivery was rejected before that. */
export const SIGNATURES = ['valid', 'invalid', 'missing', 'not_checked'] as const;

/** Reasons of rejections that are not answered 401. */
const STATUS_OF: Readonly<Record<string, number>> = {
  too_large: 413,
  too_many_chunks: 413,
  content_encoding: 415,
  no_signing_secret: 503,
};
/** The MAC was right, and the time was not. */
const SIGNED_AT_ANOTHER_TIME = ['timestamp_too_old', 'timestamp_too_new', 'timestamp_milliseconds'];

/** How a delivery was answered, and whether its signature was valid: both follow from its outcome. Pure. */
export function answerTo({ outcome, reason }: Pick<DeliveryReport, 'outcome' | 'reason'>): {
  status: number;
  signature: (typeof SIGNATURES)[number];
} {
  if (outcome === 'accepted') return { status: 202, signature: 'valid' };
  if (outcome === 'quarantined') return { status: reason === CONFLICTING ? 200 : 400, signature: 'valid' };
  const status = STATUS_OF[reason ?? ''];
  if (status !== undefined) return { status, signature: 'not_checked' };
  if (reason === 'missing_header') return { status: 401, signature: 'missing' };
  const signature = SIGNED_AT_ANOTHER_TIME.includes(reason ?? '') ? 'valid' : 'invalid';
  return { status: 401, signature };
}
