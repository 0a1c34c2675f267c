package cli

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/skein-project/skein/access"
	"github.com/skein-project/skein/cluster"
)

// keySuffix ends the names of the files of keys; before it stands whose the key is.
const keySuffix = ".key"

// KeyFile is where the key of a user lies unless somebody says otherwise; without a
// name it is the directory of such files.
func (a *App) KeyFile(user string) (string, error) {
	dir := a.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the XDG specification: to be ignored
		home := a.Getenv("HOME")
		if home == "" {
			return "", Usagef("no directory for keys: HOME is not set").WithHint("name the file of the key")
		}
		dir = filepath.Join(home, ".config")
	}
	if user == "" {
		return filepath.Join(dir, "skein"), nil
	}
	return filepath.Join(dir, "skein", user+keySuffix), nil
}

// Signer is the user's private key, and whose it is: of the file that --key or
// SKEIN_KEY names, else of the user among the files that `skein auth key` made, else
// the only one of these. Whose it is the user says, or SKEIN_USER, or the name of the
// file.
func (a *App) Signer(user string) (ed25519.PrivateKey, string, error) {
	user = cmp.Or(user, a.Getenv("SKEIN_USER"))
	file := cmp.Or(a.key, a.Getenv("SKEIN_KEY"))
	if file == "" {
		var err error
		if file, err = a.ownKey(user); err != nil {
			return nil, "", err
		}
	}
	key, err := ReadKey(file)
	if err != nil {
		e := Usagef("--key: %s", err)
		if errors.Is(err, fs.ErrPermission) {
			return nil, "", e.WithHint("run the command as the owner of the key")
		}
		return nil, "", e.WithHint("`skein auth key` makes one")
	}
	if mode, open := othersRead(file); open {
		a.Note("warning: %s has mode %s: others may read the key: run chmod go= on it", file, mode)
	}
	if name, named := strings.CutSuffix(filepath.Base(file), keySuffix); named && user == "" {
		user = name
	}
	return key, user, nil
}

// ownKey is the file of a user's key among those in the user's configuration.
func (a *App) ownKey(user string) (string, error) {
	if user != "" {
		if err := UserNamed(user); err != nil {
			return "", err
		}
		return a.KeyFile(user)
	}
	dir, err := a.KeyFile("")
	if err != nil {
		return "", err
	}
	list, err := filepath.Glob(filepath.Join(dir, "*"+keySuffix))
	switch {
	case err != nil || len(list) == 0:
		return "", Usagef("no key to sign with: none is in %s", dir).
			WithHint("`skein auth key` makes one, or name its file: --key before the command, or SKEIN_KEY")
	case len(list) > 1:
		return "", Usagef("which key to sign with: %s has %d", dir, len(list)).WithHint("name the user: --user, or SKEIN_USER")
	}
	return list[0], nil
}

// signer is the key that signs what is asked of target; nil: none. The key in the
// user's own configuration signs only what goes to hosts over TLS: on a socket the
// kernel says who asks.
func (a *App) signer(target string) (ed25519.PrivateKey, error) {
	if cmp.Or(a.key, a.Getenv("SKEIN_KEY")) == "" {
		if !strings.Contains(target, "https://") {
			return nil, nil
		}
		if file, err := a.ownKey(a.Getenv("SKEIN_USER")); err != nil {
			return nil, nil // what needs a key is refused there
		} else if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	key, _, err := a.Signer("")
	return key, err
}

// ReadKey reads a user's private key.
func ReadKey(file string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	key, err := access.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// othersRead reports whether not only the owner of a file may read it.
func othersRead(file string) (mode fs.FileMode, open bool) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	mode = info.Mode().Perm()
	return mode, mode&0o077 != 0
}

// UserNamed checks the name of the user whose key it is.
func UserNamed(user string) error {
	if user == "" {
		return Usagef("whose key it is nobody says").WithHint("name the user: --user, or SKEIN_USER")
	}
	if err := cluster.CheckUserName(user); err != nil {
		return Usagef("whose key it is: %s", err).WithHint("name the user: --user, or SKEIN_USER")
	}
	return nil
}
