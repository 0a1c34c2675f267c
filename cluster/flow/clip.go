package flow

import "strings"

// Clip cuts a text to so many bytes, and makes it one that JSON does not change: what is read
// back is as long as what was written.
func Clip(s string, most int) string {
	s = strings.ToValidUTF8(s, "?")
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}
