package forward

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const document = "../docs/remote-operations.md"

// TestDocument compares the document with the operations that there are.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- operations -->\n", "<!-- end -->\n"
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the operations", document)
	}
	want := before + begin + operationsTable() + end + after
	if string(text) == want {
		return
	}
	if os.Getenv("SKEIN_UPDATE") != "1" {
		t.Fatal("docs/remote-operations.md is stale: run SKEIN_UPDATE=1 go test ./forward -run Document")
	}
	if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func operationsTable() string {
	var b strings.Builder
	b.WriteString("| Name | What it does | Where | Who may ask | How often, each member | Answer |\n|---|---|---|---|---|---|\n")
	shared := map[string]int{}
	for _, o := range Operations() {
		shared[o.Quota.Name]++
	}
	for _, o := range Operations() {
		often := "any number"
		if q := o.Quota; q.Burst > 0 {
			often = fmt.Sprintf("%d, then one per %s", q.Burst, strings.Replace(q.Every.String(), "m0s", "m", 1))
			if q.Late {
				often += "; counts if it changes anything"
			}
			if shared[q.Name] > 1 {
				often += "; all of `" + q.Name + "` together"
			}
		}
		answer := o.Answers
		if o.Streams {
			answer = "a stream: " + answer
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", o.Name, o.Doc, o.At, o.Who, often, answer)
	}
	return b.String()
}
