package lines

import "testing"

// Each key has its line, however the file writes it.
func TestOf(t *testing.T) {
	got := Of(`name = "x" # one = 1
thresholds = [
  "a", # a comment
  { when = "b", hold = "1s" },
]
data.users = { file = "u.csv" }
text = """
[no.table]
"""
[http]
version = "1.1"
[[flow.main]]
get = 'x'
headers = { "X-A" = "1",
  B = "2" }
[[flow.main]]
"post" = "y"
`)
	for place, line := range map[string]int{
		"name": 1, "thresholds#0": 3, "thresholds#1.hold": 4, "data.users.file": 6, "text": 7, "http.version": 11, "flow.main#0.get": 13, "flow.main#0.headers.B": 15, "flow.main#1.post": 17,
	} {
		if got[place] != line {
			t.Errorf("%s: line %d, want %d", place, got[place], line)
		}
	}
	if _, there := got["no.table"]; there {
		t.Error("a text is taken for a table")
	}
}

// FuzzOf: it comes to an end whatever the text is.
func FuzzOf(f *testing.F) {
	f.Add("[[flow.f]]\nget='''\n${x'''\n\"a\".'b'=[[1],{c={}}]")
	f.Fuzz(func(_ *testing.T, text string) { Of(text) })
}
