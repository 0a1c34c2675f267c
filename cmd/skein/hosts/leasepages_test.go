package hosts

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cmd/skein/cli"
)

// TestAllPagesOfTerms: the history is shown whole, in however many pages it comes.
func TestAllPagesOfTerms(t *testing.T) {
	pages := map[string]string{
		"":        `{"node":"n1","terms":[{"term":9,"holder":"n1"},{"term":8,"holder":"n2"}],"next":8}`,
		"after=8": `{"node":"n1","terms":[{"term":6,"holder":"n3"}],"next":6}`,
		"after=6": `{"node":"n1","terms":[{"term":2,"holder":"n1"}]}`,
	}
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, pages[r.URL.RawQuery]) }))
	t.Cleanup(daemon.Close)
	show := func(output string) (string, error) {
		var out bytes.Buffer
		a := &cli.App{Timeout: time.Minute, Output: output}
		a.Out, a.Err, a.Env = &out, &out, []string{"SKEIN_SOCKET=" + daemon.URL}
		cmd := leaseHistory(a)
		cmd.SetArgs(nil)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	for output, want := range map[string][]string{"tsv": {"9\tn1", "8\tn2", "6\tn3", "2\tn1"}, "json": {`"term": 9`, `"term": 8`, `"term": 6`, `"term": 2`}} {
		text, err := show(output)
		for _, row := range want {
			before, after, found := strings.Cut(text, row)
			if !found || err != nil {
				t.Errorf("%s: %v, and %q is not in its place of\n%s", output, err, row, text)
			}
			text = before + after
		}
		if strings.Contains(text, `"next"`) {
			t.Errorf("%s promises more:\n%s", output, text)
		}
	}
	pages["after=6"] = `{"status":503,"code":"overloaded"` // no page, no list
	if text, err := show("tsv"); err == nil {
		t.Errorf("half a history:\n%s", text)
	}
}
