package tor

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
)

// CheckProgram finds the tor program, "tor" on the path if it is empty, and says
// why it cannot be used.
func CheckProgram(ctx context.Context, program string) (path string, err error) {
	if path, err = exec.LookPath(cmp.Or(program, "tor")); err != nil {
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return path, checkVersion(ctx, path)
}
