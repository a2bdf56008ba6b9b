/** The deliveries of `test/fixtures/doctor`, each with the causes that doctor must name. */
export const SPECIMENS: readonly (readonly [name: string, codes: readonly string[]])[] = [
  ['healthy', []],
  ['healthy-pretty', []],
  ['header-missing', ['header_missing']],
  ['no-v1', ['no_v1']],
  ['wrong-secret', ['wrong_secret']],
  ['retired-secret', ['secret_not_in_use']],
  ['body-reserialised', ['body_reserialised']],
  ['bom-added', ['bom_added']],
  ['crlf-added', ['line_endings_changed']],
  ['crlf-removed', ['line_endings_changed']],
  ['comma-separator', ['signed_content_differs']],
  ['body-only', ['timestamp_not_signed']],
  ['milliseconds', ['timestamp_in_milliseconds']],
  ['clock-behind', ['clock_behind']],
  ['clock-ahead', ['clock_ahead']],
  ['base64-secret', ['secret_encoding_differs']],
];
