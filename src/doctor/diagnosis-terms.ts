import type { SignatureSettings } from '../platform/config.ts';
import type { SecretEncoding } from '../platform/signing-secret.ts';
import type { BodyFault } from './diagnosis-bodies.ts';

/** One delivery as somebody recorded it. */
export interface Specimen {
  /** The signature header's value; undefined: it came without. */
  headerValue: string | undefined;
  /** Every header that was recorded, by its name in lower case. */
  headers: ReadonlyMap<string, string>;
  body: Uint8Array;
  /** When it arrived. Seconds since 1970. */
  receivedSeconds: number;
}

export interface DiagnosisSettings
  extends Pick<SignatureSettings, 'template' | 'algorithm' | 'header' | 'toleranceSeconds'> {
  secretEncoding: SecretEncoding;
}

export type CauseCode =
  | BodyFault
  | 'header_missing'
  | 'header_named_otherwise'
  | 'header_malformed'
  | 'no_timestamp'
  | 'timestamp_unreadable'
  | 'timestamp_in_milliseconds'
  | 'no_v1'
  | 'signature_not_hex'
  | 'signed_content_differs'
  | 'timestamp_not_signed'
  | 'hash_differs'
  | 'secret_encoding_differs'
  | 'secret_too_short'
  | 'secret_not_in_use'
  | 'wrong_secret'
  | 'missing_signed_header'
  | 'no_secret'
  | 'clock_behind'
  | 'clock_ahead';

export interface Cause {
  code: CauseCode;
  what: string;
  remedy: string;
  /** The settings that take it as it is, where there are such; proven as far as a signature was found to fit. */
  settings?: Readonly<Record<string, string>>;
}

/** Of what no setting can take. */
export const ASK_SENDER = 'Only the sender can change this: show it what this says.';
