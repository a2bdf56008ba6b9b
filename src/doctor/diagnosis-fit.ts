import { MIN_SIGNING_KEY_BYTES, partsOfEncoding, type SecretEncoding } from '../platform/signing-secret.ts';
import type { BodyFault } from './diagnosis-bodies.ts';
import { type Fit, templateText } from './diagnosis-search.ts';
import { ASK_SENDER, type Cause, type DiagnosisSettings } from './diagnosis-terms.ts';

/** What a signature that fits tells by how it differs from the settings. */
export function fitCauses(fit: Fit, settings: DiagnosisSettings): Cause[] {
  const causes: Cause[] = [];
  if (fit.secret.standing === 'retired') {
    causes.push({
      code: 'secret_not_in_use',
      what: `It is signed with a secret that is not in use here (${fit.secret.name}): retired, or not configured yet.`,
      remedy:
        'If the sender is right to use it, add it to WEBHOOK_SECRETS beside the others. If it was retired, change the sender to the new one.',
    });
  }
  const { encoding, name, isTooShort } = fit.secretReading;
  if (isTooShort) {
    causes.push({
      code: 'secret_too_short',
      what: `It is signed with fewer than ${MIN_SIGNING_KEY_BYTES} bytes (the secret ${name}), which can be guessed from one recorded delivery: no setting takes that.`,
      remedy: 'Have the sender use a longer secret, or read it otherwise: show it what this says.',
    });
  } else if (encoding !== settings.secretEncoding) {
    causes.push({
      code: 'secret_encoding_differs',
      what: `The sender uses the secret ${name}; here it is read ${wordsOf(settings.secretEncoding)}.`,
      remedy:
        encoding === null
          ? 'Write the secret into WEBHOOK_SECRETS in that form.'
          : `Set WEBHOOK_SECRET_ENCODING=${encoding}.`,
      ...(encoding === null ? {} : { settings: { WEBHOOK_SECRET_ENCODING: encoding } }),
    });
  }
  if (!fit.template.isConfigured) {
    const signsTime = fit.template.parts.some((part) => part.kind === 'timestamp');
    const shown = JSON.stringify(fit.template.text);
    causes.push(
      signsTime
        ? {
            code: 'signed_content_differs',
            what: `The sender signs ${shown}; here ${JSON.stringify(templateText(settings.template))} is expected.`,
            remedy: `Set WEBHOOK_SIGNED_CONTENT to ${shown}, without the quotes.`,
            settings: { WEBHOOK_SIGNED_CONTENT: fit.template.text },
          }
        : {
            code: 'timestamp_not_signed',
            what: 'The sender signs the body alone, without the time: a recorded delivery could be replayed for ever.',
            remedy: `No setting takes that. ${ASK_SENDER}`,
          },
    );
  }
  if (fit.algorithm !== settings.algorithm) {
    causes.push({
      code: 'hash_differs',
      what: `The sender uses HMAC-${fit.algorithm.toUpperCase()}; here ${settings.algorithm.toUpperCase()} is expected.`,
      remedy:
        fit.algorithm === 'sha1'
          ? `SHA-1 is not taken. ${ASK_SENDER}`
          : `Set WEBHOOK_SIGNATURE_ALGORITHM=${fit.algorithm}.`,
      ...(fit.algorithm === 'sha1' ? {} : { settings: { WEBHOOK_SIGNATURE_ALGORITHM: fit.algorithm } }),
    });
  }
  if (fit.body.fault !== null) {
    causes.push({
      code: fit.body.fault,
      what: `${BODY_FAULTS[fit.body.fault]} The signature fits the body ${fit.body.name}.`,
      remedy:
        'Something between the sender and here changes bodies: a proxy, a gateway or a function that parses and prints them. Have it pass the bytes as they are.',
    });
  }
  return causes;
}

function wordsOf(encoding: SecretEncoding): string {
  const { prefix, form } = partsOfEncoding(encoding);
  const words = form === 'utf8' ? 'as text' : `as ${form}`;
  return prefix === '' ? words : `${words} behind "${prefix}"`;
}

const BODY_FAULTS: Record<BodyFault, string> = {
  bom_added: 'A byte order mark was put in front of the body after it was signed.',
  bom_removed: 'The byte order mark in front of the body was taken off after it was signed.',
  line_endings_changed: 'The line ends of the body were changed after it was signed.',
  final_newline_changed: 'The line end behind the body was added or taken off after it was signed.',
  body_reserialised: 'The body was parsed and printed again after it was signed.',
};
