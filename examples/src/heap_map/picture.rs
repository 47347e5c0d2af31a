//! A finished picture, stored as SVG and as PNG.

use std::fs;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use resvg::render;
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// A picture as SVG text.
#[derive(Clone, Debug)]
pub struct Picture {
    svg: String,
}

impl Picture {
    pub(super) const fn new(svg: String) -> Self {
        Self { svg }
    }

    /// The SVG text.
    #[must_use]
    pub fn svg(&self) -> &str {
        &self.svg
    }

    /// The picture as a PNG file's bytes. Its font comes with the program: no font of the system is used.
    ///
    /// # Errors
    /// The picture is too large for this machine.
    pub fn png(&self) -> io::Result<Vec<u8>> {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
        let family = fonts.faces().next().and_then(|face| face.families.first()).map(|(name, _)| name.clone());
        let font_family = family.unwrap_or_default();
        fonts.set_sans_serif_family(font_family.clone());
        let options = Options { fontdb: Arc::new(fonts), font_family, ..Options::default() };
        let tree = Tree::from_str(&self.svg, &options).map_err(Error::other)?;
        let size = tree.size().to_int_size();
        let mut pixels = Pixmap::new(size.width(), size.height()).ok_or_else(|| Error::other("too large to draw"))?;
        render(&tree, Transform::identity(), &mut pixels.as_mut());
        pixels.encode_png().map_err(Error::other)
    }

    /// Writes `NAME.svg` and `NAME.png` into `folder`, which is made if need be, and returns their paths.
    ///
    /// # Errors
    /// The folder or a file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> io::Result<[PathBuf; 2]> {
        fs::create_dir_all(folder)?;
        let paths = [folder.join(name).with_extension("svg"), folder.join(name).with_extension("png")];
        fs::write(&paths[0], &self.svg)?;
        fs::write(&paths[1], self.png()?)?;
        Ok(paths)
    }
}
