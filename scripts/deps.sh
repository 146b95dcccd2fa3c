#!/bin/sh
# Installs what kwalk needs to build and to test, and of that only what is missing.
#
#   scripts/deps.sh              look, say, install, look again
#   scripts/deps.sh --features   print the Cargo flags that fit the libraries that are here
#
# Exit status: 0 if kwalk can be built (perhaps without hwloc: that is said), 1 if it cannot.
# cargo itself is never installed: how somebody keeps their Rust is theirs to choose.
set -eu

manifest="${0%/*}/../Cargo.toml"
# What the Cargo feature `hwloc` accepts (`hwloc-2_8_0` of hwlocality; it refuses the next major).
hwloc_at_least=2.8.0
hwloc_below=3.0.0

say() { printf 'deps: %s\n' "$*"; }
complain() { printf 'deps: %s\n' "$*" >&2; }

# Whether version $1 is $2 or later; major and minor are compared, the rest is not.
at_least() {
    major=${1%%.*} minor=${1#*.}
    minor=${minor%%[!0-9]*}
    want_minor=${2#*.}
    [ "$major" -gt "${2%%.*}" ] || { [ "$major" -eq "${2%%.*}" ] && [ "$minor" -ge "${want_minor%%.*}" ]; }
}

# Whether hwloc and libudev are here in versions that the Cargo feature `hwloc` builds with.
hwloc_fits() {
    pkg-config --exists "hwloc >= $hwloc_at_least" "hwloc < $hwloc_below" libudev 2>/dev/null
}

if [ "${1-}" = --features ]; then
    hwloc_fits || echo --no-default-features
    exit 0
elif [ $# -gt 0 ]; then
    complain "\"$1\" is not an argument; accepted: none, or --features"
    exit 2
fi

# Rust first: without it the rest is of no use, so nothing is installed.
rust_at_least=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$manifest")
rust_from="rustup (a package of that name, or https://rustup.rs) has it; so have distributions that are new enough"
if ! command -v cargo >/dev/null; then
    complain "cargo is not here: kwalk needs Rust $rust_at_least or later; $rust_from. Nothing was installed."
    exit 1
fi
if ! cargo_version=$(cargo --version 2>/dev/null); then
    complain "cargo is here but does not start, as where rustup has no toolchain yet: try 'rustup default stable'. Nothing was installed."
    exit 1
fi
cargo_version=${cargo_version#cargo }
cargo_version=${cargo_version%% *}
if ! at_least "$cargo_version" "$rust_at_least"; then
    complain "cargo $cargo_version is too old: kwalk needs Rust $rust_at_least or later; $rust_from. Nothing was installed."
    exit 1
fi

# Whether one thing is here. Rust links by `cc`; crt1.o is what a compiler without the C library's
# development files lacks.
have() {
    case $1 in
        linker) command -v cc && case $(cc -print-file-name=crt1.o) in */*) ;; *) false ;; esac ;;
        pkg-config) command -v pkg-config ;;
        hwloc) pkg-config --exists hwloc ;;
        libudev) pkg-config --exists libudev ;;
        valgrind) command -v valgrind ;;
        binutils) command -v objdump ;;
    esac >/dev/null 2>&1
}

# The packages that bring thing $2, by package manager $1. Arch: `systemd` and `systemd-libs`
# come together, whichever of them holds libudev.pc.
packages_of() {
    case $1:$2 in
        apt-get:linker) echo gcc libc6-dev ;;
        dnf:linker | zypper:linker) echo gcc glibc-devel ;;
        pacman:linker) echo gcc glibc ;;
        apt-get:pkg-config) echo pkg-config ;;
        dnf:pkg-config) echo pkgconf-pkg-config ;;
        pacman:pkg-config) echo pkgconf ;;
        zypper:pkg-config) echo pkg-config ;;
        apt-get:hwloc) echo libhwloc-dev ;;
        dnf:hwloc | zypper:hwloc) echo hwloc-devel ;;
        pacman:hwloc) echo hwloc ;;
        apt-get:libudev) echo libudev-dev ;;
        dnf:libudev) echo systemd-devel ;;
        pacman:libudev) echo systemd ;;
        zypper:libudev) echo libudev-devel ;;
        *) echo "$2" ;;
    esac
}

look() {
    here='' missing=''
    for thing in linker pkg-config hwloc libudev valgrind binutils; do
        if have "$thing"; then here="$here $thing"; else missing="$missing $thing"; fi
    done
}

# The command that installs packages by manager $1, without questions.
install_by() {
    case $1 in
        apt-get) echo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ;;
        dnf) echo dnf install -y --setopt=install_weak_deps=False ;;
        pacman) echo pacman -S --needed --noconfirm ;;
        zypper) echo zypper --non-interactive install --no-recommends ;;
    esac
}

# Install what is in $missing, or say in one sentence why not and what would do it.
install_missing() {
    manager=''
    for candidate in apt-get dnf pacman zypper; do
        if [ -z "$manager" ] && command -v "$candidate" >/dev/null; then manager=$candidate; fi
    done
    packages=''
    for thing in $missing; do packages="$packages $(packages_of "${manager:-apt-get}" "$thing")"; done
    packages=${packages# }
    if [ -z "$manager" ]; then
        complain "none of apt-get, dnf, pacman and zypper is here, so nothing is installed; by Debian's names this is wanted: $packages"
        return
    fi
    install=$(install_by "$manager") hint=''
    if [ "$manager" = dnf ]; then hint=' (where it is RHEL or a relative: perhaps from its CRB repository)'; fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            complain "not root and no sudo here, so nothing is installed; as root: $install $packages"
            return
        fi
        install="sudo $install"
    fi
    # $install and $packages are lists of words.
    # shellcheck disable=SC2086
    {
        if [ "$manager" = apt-get ]; then
            update="${install%% install *} update"
            say "refreshing the package lists: $update"
            $update || complain "the package lists could not be refreshed; going on with those that are here"
        fi
        say "installing: $install $packages"
        $install $packages && return
        complain "not all of that could be had together; trying one by one"
        for package in $packages; do
            $install "$package" || complain "$package could not be installed$hint"
        done
    }
}

look
say "here: cargo $cargo_version$here"
if [ -n "$missing" ]; then
    say "missing:$missing"
    install_missing
    look
    if [ -n "$missing" ]; then complain "still missing:$missing"; fi
fi

if ! hwloc_fits; then
    version=$(pkg-config --modversion hwloc 2>/dev/null) || version=none
    complain "kwalk is built without hwloc (--no-default-features), which costs the comparison of its view of the caches with CPUID's and Linux's: it takes hwloc $hwloc_at_least or later, below $hwloc_below, and libudev; hwloc here: $version"
fi
case $missing in
    *valgrind* | *binutils*) complain "kwalk works without valgrind and binutils; the tests that compare with cachegrind or read machine code do not" ;;
esac
case $missing in
    *linker*)
        complain "kwalk cannot be built: Rust needs a C linker (cc) and the C library's development files"
        exit 1
        ;;
esac
say "all that a build needs is here"
