package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/internal/advice"
)

// TestStores: what an examination found has its own row, with what to do in the hint.
func TestStores(t *testing.T) {
	hidden := &fs.PathError{Op: "open", Path: "/etc/skein/redis.password", Err: fs.ErrPermission}
	mine, running := Host{}, Host{Backend: config.BackendNetstack}
	for name, c := range map[string]struct {
		h            Host
		warned       []error
		err          error
		want         api.Verdict
		detail, hint string
	}{
		"fine":           {mine, nil, nil, api.VerdictOK, "Redis 7", ""},
		"fault":          {mine, nil, fmt.Errorf("check: %w", advice.New("it is a replica", "name its master")), api.VerdictFail, "at: it is a replica", "name its master"},
		"nothing known":  {mine, nil, errors.New("broken"), api.VerdictFail, "at: broken", ""},
		"not readable":   {mine, nil, &advice.Error{Err: fmt.Errorf("key: %w", hidden), Next: "x"}, api.VerdictSkip, "cannot be read", "root"},
		"not by daemon":  {running, nil, &advice.Error{Err: fmt.Errorf("key: %w", hidden), Next: "x"}, api.VerdictFail, "permission denied", "x"},
		"one warning":    {mine, []error{advice.New("no file", "set appendonly yes")}, nil, api.VerdictWarn, "no file", "set appendonly yes"},
		"two warnings":   {mine, []error{advice.New("no file", "set appendonly yes"), advice.New("another cluster", "move it")}, nil, api.VerdictWarn, "no file; another cluster", "set appendonly yes; move it"},
		"percent's sign": {mine, nil, advice.New("100%d", "50%s"), api.VerdictFail, "at: 100%d", "50%s"},
	} {
		if v := judgeStore(c.h, "at", "Redis 7", c.warned, c.err); v.v != c.want || !strings.Contains(v.detail, c.detail) || !strings.Contains(v.hint, c.hint) || c.hint == "" && v.hint != "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
	for name, check := range map[string]func() verdict{
		"redis":      func() verdict { return checkRedis(t.Context(), Host{}) },
		"centrifugo": func() verdict { return checkCentrifugo(t.Context(), Host{}) },
		"postgres":   func() verdict { return checkPostgres(t.Context(), Host{}) },
	} {
		if v := check(); v.v != api.VerdictSkip {
			t.Errorf("%s is not used: %+v", name, v)
		}
	}
	h := Host{}
	h.Config.Gateway.Push, h.Config.Centrifugo.APIURL, h.Config.Centrifugo.APIKeyFile = config.PushCentrifugo, "http://127.0.0.1:1/api", t.TempDir()+"/none"
	if v := checkCentrifugo(t.Context(), h); v.v != api.VerdictFail || !strings.Contains(v.detail, "centrifugo.api_key_file") || !strings.Contains(v.hint, "name a file") {
		t.Errorf("a Centrifugo without its key: %+v", v)
	}
}
