/** `FULL=1`: what is exhaustive or long has its whole size. Else a part of it that continuous integration has the time for. */
export const IS_FULL = process.env['FULL'] === '1';
