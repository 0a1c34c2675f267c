package daemon

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/skein-project/skein/config"
)

// TestOnionSettings: all that the configuration says of the onion addresses, its
// defaults too, reaches what serves them: a bound that stays behind bounds nobody.
func TestOnionSettings(t *testing.T) {
	cfg, err := config.Load(config.Options{Path: filepath.Join(t.TempDir(), "none"), Optional: true, Env: []string{
		"SKEIN_TOR_ENABLED=true", "SKEIN_ONION_TARGET=127.0.0.1:8080", "SKEIN_ONION_HOST=app.example",
	}})
	if err != nil {
		t.Fatal(err)
	}
	var look func(name string, v reflect.Value)
	look = func(name string, v reflect.Value) {
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				look(v.Type().Field(i).Name, v.Field(i))
			}
			return
		}
		if v.IsZero() && name != "Within" && name != "Every" { // the proxy's own
			t.Errorf("%s is not set", name)
		}
	}
	look("Site", reflect.ValueOf(siteOf(cfg.Onion)))
}
