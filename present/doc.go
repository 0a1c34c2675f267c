// Package present says what people read: a table for each list of the API, a
// sentence for each event, ages and sizes. Every face shows the same columns and
// the same words: the command line, the terminal, the pages. Values in, text out;
// ages are counted from when a host answered.
package present
