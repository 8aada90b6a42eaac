#!/bin/sh
# build.sh BUILD VERSION - a Debian package from what `make install` installs: BUILD/sluice_VERSION_ARCH.deb
#
# Needs dpkg and what building needs, nothing else. Libraries become dependencies by the packages that their files belong to.
set -eu
build=$1 version=$2
here=$(dirname "$0")
root=$build/deb/root
arch=$(dpkg --print-architecture)

rm -rf "$build/deb"
mkdir -p "$root"
"${MAKE:-make}" --no-print-directory -s B="$build" DESTDIR="$(realpath "$root")" PREFIX=/usr SYSCONFDIR=/etc \
    ZSHDIR=/usr/share/zsh/vendor-completions install
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/sluice"
rm -r "$root/usr/lib/sysusers.d" # the package makes the user itself

# The packages of the libraries that the program names.
depends=
for library in $(objdump -p "$root/usr/bin/sluice" | sed -n 's/^ *NEEDED *//p'); do
    path=$(ldd "$root/usr/bin/sluice" | sed -n "s/^[[:space:]]*$library => \([^ ]*\) .*/\1/p")
    [ -n "$path" ] || continue
    package=$(dpkg -S "$(realpath "$path")" 2>/dev/null || dpkg -S "$path")
    package=${package%%:*}
    case " $depends " in
    *" $package, "*) ;;
    *) depends="$depends $package, " ;;
    esac
done
depends=$(printf '%s' "$depends" | sed 's/^ *//; s/,  */, /g; s/, *$//')

doc=$root/usr/share/doc/sluice
install -D -m 644 "$here/copyright" "$doc/copyright"
printf 'sluice (%s) stable; urgency=medium\n\n  * Made from the sources by make deb.\n\n -- The sluice team <sluice@localhost>  %s\n' \
    "$version" "$(date -R -u -d "@${SOURCE_DATE_EPOCH:-0}")" | gzip -9n >"$doc/changelog.gz"
chmod 644 "$doc/changelog.gz"
gzip -9n "$root"/usr/share/man/man*/*

mkdir "$root/DEBIAN"
(cd "$root" && find . -type f -not -path './DEBIAN/*' -not -path './etc/*' -printf '%P\0' | sort -z | xargs -0 md5sum) \
    >"$root/DEBIAN/md5sums"
(cd "$root" && find etc -type f -printf '/etc/%P\n' | sort) >"$root/DEBIAN/conffiles"
size=$(du -sk --exclude=DEBIAN "$root" | cut -f1)
sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$size/" -e "s/@DEPENDS@/$depends/" "$here/control.in" \
    >"$root/DEBIAN/control"
for script in postinst prerm postrm; do
    install -m 755 "$here/$script" "$root/DEBIAN/$script"
done
chmod -R u+rwX,go+rX,go-w "$root"
dpkg-deb --root-owner-group -Zxz --build "$root" "$build/sluice_${version}_$arch.deb" >/dev/null
echo "$build/sluice_${version}_$arch.deb"
