package engine

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/skein-project/skein/load"
)

// TestHooks: each request is signed by a module, over what it carries; one that is not there
// is refused before anything is sent.
func TestHooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sign.wasm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildmode=c-shared", "-o", path, "../../examples/load/sign")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	module, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte("a key"))
		mac.Write(body)
		if got := r.Header.Values("X-Signature"); err != nil || len(got) != 1 || got[0] != hex.EncodeToString(mac.Sum(nil)) || r.Header.Get("X-Other") != "kept" {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	text := func(call string) string {
		return `traffic.main = { flow = "f", users = 3, for = "2s", think = "100ms" }
[[flow.f]]
post = "http://target.test/"
json = { user = "${user}", n = "${iteration}" }
headers = { X-Signature = "none", X-Other = "kept" }
hook = { wasm = "sign.wasm", call = "` + call + `" }
[[flow.f]]
get = "http://target.test/"
headers = { X-Other = "kept" }
hook = { wasm = "sign.wasm", call = "` + call + `" }`
	}
	in(t, h, func(t *testing.T, s *scene) {
		s.o.Files = map[string][]byte{"sign.wasm": module}
		r := s.run(t.Context(), t, text("sign"))
		if all := r.Whole.All(); all.Count() < 60 || all.Classes[load.OK] != all.Count() {
			t.Errorf("%v %v", all.Classes, r.Errors)
		}
		s.o.Plan = planOf(t, text("other"), load.Inputs{})
		var refused *RefusedError
		if _, err := New(s.o); !errors.As(err, &refused) {
			t.Errorf("a function that is not there: %v", err)
		}
	})
}
