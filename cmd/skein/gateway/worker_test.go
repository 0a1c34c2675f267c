package gateway

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

// TestAllPagesOfWorkers: the list is shown whole, in however many pages it comes.
func TestAllPagesOfWorkers(t *testing.T) {
	pages := map[string]string{
		"":          `{"workers":[{"worker":"w-a"},{"worker":"w-b"}],"next":"w-b"}`,
		"after=w-b": `{"workers":[{"worker":"w-c"}],"next":"w-c"}`,
		"after=w-c": `{"workers":[{"worker":"w-d"}]}`,
	}
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, pages[r.URL.RawQuery]) }))
	t.Cleanup(daemon.Close)
	var out bytes.Buffer
	a := &cli.App{Timeout: time.Minute, Output: "tsv"}
	a.Out, a.Err, a.Env = &out, &out, []string{"SKEIN_SOCKET=" + daemon.URL}
	cmd := workerList(a)
	cmd.SetArgs(nil)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"w-a", "w-b", "w-c", "w-d"} {
		if strings.Count(out.String(), id) != 1 {
			t.Errorf("%s stands there %d times:\n%s", id, strings.Count(out.String(), id), out.String())
		}
	}
}
