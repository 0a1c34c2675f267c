// Package present says what people read: a sentence for each event, ages and
// sizes. Values in, text out; what is said of the time has it as an argument.
package present
